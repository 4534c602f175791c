//! Small dense matrices for the exact solvers: products and LU solves.

/// Row-major.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Self {
        Self { rows, columns, values: vec![0.0; rows * columns] }
    }

    pub(crate) fn identity(size: usize) -> Self {
        let mut identity = Self::zeros(size, size);
        (0..size).for_each(|i| identity.values[i * size + i] = 1.0);
        identity
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    pub(crate) fn at_mut(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.values[row * self.columns + column]
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// `self` + `factor`·`other`.
    pub(crate) fn plus(mut self, factor: f64, other: &Self) -> Self {
        self.values.iter_mut().zip(&other.values).for_each(|(value, more)| *value += factor * more);
        self
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        let mut product = Self::zeros(self.rows, other.columns);
        for row in 0..self.rows {
            for inner in 0..self.columns {
                let factor = self.at(row, inner);
                if factor == 0.0 {
                    continue;
                }
                let target = &mut product.values[row * other.columns..(row + 1) * other.columns];
                target.iter_mut().zip(other.row(inner)).for_each(|(sum, value)| *sum += factor * value);
            }
        }
        product
    }

    /// x·`self` for a row vector x.
    pub(crate) fn left_times(&self, x: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.columns];
        for (row, factor) in x.iter().enumerate() {
            product.iter_mut().zip(self.row(row)).for_each(|(sum, value)| *sum += factor * value);
        }
        product
    }

    pub(crate) fn row_sums(&self) -> Vec<f64> {
        (0..self.rows).map(|row| self.row(row).iter().sum()).collect()
    }

    /// With the diagonal that makes every row add up to `sum`. Unlike subtracting, it loses no digits of rates that almost
    /// cancel (Grassmann, Taksar & Heyman 1985).
    pub(crate) fn with_row_sums(mut self, sum: f64) -> Self {
        for row in 0..self.rows {
            *self.at_mut(row, row) = 0.0;
            *self.at_mut(row, row) = sum - self.row(row).iter().sum::<f64>();
        }
        self
    }

    pub(crate) fn transposed(&self) -> Self {
        let mut transposed = Self::zeros(self.columns, self.rows);
        for row in 0..self.rows {
            for column in 0..self.columns {
                *transposed.at_mut(column, row) = self.at(row, column);
            }
        }
        transposed
    }

    /// X with `self`·X = `right`, by Gaussian elimination with partial pivoting. `None` when singular.
    pub(crate) fn solve(&self, right: &Self) -> Option<Self> {
        let (mut left, mut x) = (self.clone(), right.clone());
        for pivot in 0..left.rows {
            let best = (pivot..left.rows)
                .max_by(|&a, &b| left.at(a, pivot).abs().total_cmp(&left.at(b, pivot).abs()))?;
            if left.at(best, pivot) == 0.0 {
                return None;
            }
            left.swap_rows(pivot, best);
            x.swap_rows(pivot, best);
            for row in pivot + 1..left.rows {
                let factor = left.at(row, pivot) / left.at(pivot, pivot);
                if factor != 0.0 {
                    left.subtract_row(row, pivot, factor);
                    x.subtract_row(row, pivot, factor);
                }
            }
        }
        for pivot in (0..left.rows).rev() {
            let diagonal = left.at(pivot, pivot);
            for column in 0..x.columns {
                *x.at_mut(pivot, column) /= diagonal;
            }
            for row in 0..pivot {
                let factor = left.at(row, pivot);
                if factor != 0.0 {
                    x.subtract_row(row, pivot, factor);
                }
            }
        }
        Some(x)
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        if a != b {
            (0..self.columns)
                .for_each(|column| self.values.swap(a * self.columns + column, b * self.columns + column));
        }
    }

    fn subtract_row(&mut self, row: usize, pivot: usize, factor: f64) {
        let columns = self.columns;
        let (low, high) = self.values.split_at_mut(row.max(pivot) * columns);
        let (target, source) = if row > pivot {
            (&mut high[..columns], &low[pivot * columns..(pivot + 1) * columns])
        } else {
            (&mut low[row * columns..(row + 1) * columns], &high[..columns])
        };
        target.iter_mut().zip(source).for_each(|(value, other)| *value -= factor * other);
    }
}
