//! The survival function of a gamma distribution.

/// The most terms of the series or of the continued fraction. Both end long before, unless the shape is huge.
const TERMS_MAX: usize = 10_000;
const TOLERANCE: f64 = 1e-12;

/// P(X > x) for this shape and scale 1: the regularised upper incomplete gamma function, by its series below the mean and by
/// Lentz's continued fraction above (Press et al., Numerical Recipes, 6.2).
pub(super) fn survival(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (shape * x.ln() - x - libm::lgamma(shape)).exp();
    if x < shape + 1.0 { 1.0 - scale * series(shape, x) } else { scale * fraction(shape, x) }.clamp(0.0, 1.0)
}

fn series(shape: f64, x: f64) -> f64 {
    let mut term = 1.0 / shape;
    let mut sum = term;
    for n in 1..TERMS_MAX {
        term *= x / (shape + n as f64);
        sum += term;
        if term < sum * TOLERANCE {
            break;
        }
    }
    sum
}

fn fraction(shape: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - shape;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut product = d;
    for n in 1..TERMS_MAX {
        let a = -(n as f64) * (n as f64 - shape);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        product *= d * c;
        if (d * c - 1.0).abs() < TOLERANCE {
            break;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;

    #[test]
    fn sums_of_exponentials_are_known() {
        for x in [0.01, 0.5, 3.0, 20.0_f64] {
            check(survival(1.0, x), (-x).exp(), 1e-10);
            check(survival(3.0, x), (-x).exp() * (1.0 + x + x * x / 2.0), 1e-10);
            check(survival(0.5, x), libm::erfc(x.sqrt()), 1e-10);
        }
        assert_eq!(survival(2.0, 0.0), 1.0);
    }
}
