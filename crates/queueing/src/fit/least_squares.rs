//! Non-linear least squares within bounds: Levenberg (1944) and Marquardt (1963), projected onto a box.
//!
//! Small problems only: a handful of parameters, derivatives by central differences. A parameter at its bound that
//! would go beyond is left out of the step (the active set), so that a fit on the boundary still converges.

use crate::matrix::Matrix;

const STEPS_MAX: usize = 200;
/// Damping beyond which no downhill step exists in double precision.
const DAMPING_MAX: f64 = 1e12;
const GAIN_MIN: f64 = 1e-11;

/// Sum of squared residuals to be minimised.
pub(super) struct Problem<'p> {
    /// Fills in the residuals for these parameters.
    pub(super) residuals: &'p dyn Fn(&[f64]) -> Vec<f64>,
    pub(super) low: Vec<f64>,
    pub(super) high: Vec<f64>,
    /// Per parameter, the size of a change that matters.
    pub(super) scale: Vec<f64>,
}

/// The result of the search.
#[derive(Debug, Clone)]
pub(super) struct Minimum {
    pub(super) parameters: Vec<f64>,
    pub(super) squares: f64,
}

impl Problem<'_> {
    /// Searches downhill from `start`, which must lie within the bounds.
    pub(super) fn minimise(&self, start: &[f64]) -> Minimum {
        let mut here = Minimum { parameters: start.to_vec(), squares: self.squares(start) };
        let mut damping = 1e-3;
        for _ in 0..STEPS_MAX {
            let (normal, descent) = self.normal_equations(&here.parameters);
            let free = self.free(&here.parameters, &descent);
            let before = here.squares;
            loop {
                let Some(next) = self.step(&here.parameters, &normal, &descent, &free, damping) else {
                    return here;
                };
                let squares = self.squares(&next);
                if squares < here.squares {
                    here = Minimum { parameters: next, squares };
                    damping = (damping * 0.1).max(1e-12);
                    break;
                }
                damping *= 10.0;
                if damping > DAMPING_MAX {
                    return here;
                }
            }
            if before - here.squares <= GAIN_MIN * before {
                return here;
            }
        }
        here
    }

    fn squares(&self, parameters: &[f64]) -> f64 {
        (self.residuals)(parameters).iter().map(|residual| residual * residual).sum()
    }

    /// JᵀJ and −Jᵀr.
    fn normal_equations(&self, at: &[f64]) -> (Matrix, Vec<f64>) {
        let residuals = (self.residuals)(at);
        let columns: Vec<Vec<f64>> = (0..at.len()).map(|index| self.derivative(at, index)).collect();
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(x, y)| x * y).sum() };
        let mut normal = Matrix::zeros(at.len(), at.len());
        for (row, a) in columns.iter().enumerate() {
            for (column, b) in columns.iter().enumerate() {
                *normal.at_mut(row, column) = dot(a, b);
            }
        }
        (normal, columns.iter().map(|column| -dot(column, &residuals)).collect())
    }

    fn derivative(&self, at: &[f64], index: usize) -> Vec<f64> {
        let change = self.scale[index] * 1e-5;
        let shifted = |by: f64| {
            let mut parameters = at.to_vec();
            parameters[index] = (at[index] + by).clamp(self.low[index], self.high[index]);
            (parameters[index], (self.residuals)(&parameters))
        };
        let ((low, below), (high, above)) = (shifted(-change), shifted(change));
        // A parameter that is held fixed (low = high) does not move anything.
        let width = (high - low).max(f64::MIN_POSITIVE);
        above.iter().zip(&below).map(|(up, down)| (up - down) / width).collect()
    }

    /// The parameters that may move: all but those at a bound with the descent direction pointing out.
    fn free(&self, at: &[f64], descent: &[f64]) -> Vec<usize> {
        let stuck = |index: usize| {
            (at[index] <= self.low[index] && descent[index] <= 0.0)
                || (at[index] >= self.high[index] && descent[index] >= 0.0)
        };
        (0..at.len()).filter(|index| !stuck(*index)).collect()
    }

    fn step(
        &self,
        at: &[f64],
        normal: &Matrix,
        descent: &[f64],
        free: &[usize],
        damping: f64,
    ) -> Option<Vec<f64>> {
        if free.is_empty() {
            return None;
        }
        let (mut left, mut right) = (Matrix::zeros(free.len(), free.len()), Matrix::zeros(free.len(), 1));
        for (row, &i) in free.iter().enumerate() {
            for (column, &j) in free.iter().enumerate() {
                *left.at_mut(row, column) = normal.at(i, j);
            }
            *left.at_mut(row, row) += damping * normal.at(i, i).max(f64::MIN_POSITIVE);
            *right.at_mut(row, 0) = descent[i];
        }
        let change = left.solve(&right)?;
        let mut next = at.to_vec();
        for (row, &index) in free.iter().enumerate() {
            next[index] = (at[index] + change.at(row, 0)).clamp(self.low[index], self.high[index]);
        }
        next.iter().all(|value| value.is_finite()).then_some(next)
    }
}
