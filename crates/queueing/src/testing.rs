//! What the tests of this crate share.

/// Fails unless `actual` is `expected` within so much of it.
pub fn check(actual: f64, expected: f64, relative: f64) {
    assert!(
        (actual - expected).abs() <= relative * expected.abs(),
        "{actual} is not {expected} within {relative}"
    );
}
