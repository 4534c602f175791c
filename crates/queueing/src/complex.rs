//! Complex numbers as far as transforms of response times need them.

use std::ops::{Add, Div, Mul, Sub};

/// re + i·im.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Complex {
    pub(crate) re: f64,
    pub(crate) im: f64,
}

impl Complex {
    pub(crate) const ONE: Self = Self { re: 1.0, im: 0.0 };
    pub(crate) const ZERO: Self = Self { re: 0.0, im: 0.0 };

    pub(crate) fn exp(self) -> Self {
        let (sin, cos) = self.im.sin_cos();
        let size = self.re.exp();
        Self { re: size * cos, im: size * sin }
    }

    pub(crate) fn conjugate(self) -> Self {
        Self { re: self.re, im: -self.im }
    }

    /// The principal value of a real power.
    pub(crate) fn powf(self, exponent: f64) -> Self {
        let size = self.re.hypot(self.im).powf(exponent);
        let (sin, cos) = (self.im.atan2(self.re) * exponent).sin_cos();
        Self { re: size * cos, im: size * sin }
    }
}

impl From<f64> for Complex {
    fn from(re: f64) -> Self {
        Self { re, im: 0.0 }
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

impl Mul<f64> for Complex {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        Self { re: self.re * factor, im: self.im * factor }
    }
}

impl Div for Complex {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let square = other.re * other.re + other.im * other.im;
        self * other.conjugate() * (1.0 / square)
    }
}
