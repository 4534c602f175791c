//! NumPy arrays in and out, by the buffer protocol: what is passed in is copied, and a new array is filled by one copy.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The values of a one-dimensional array: a copy, so that the interpreter lock can be released while it is used.
pub struct Values<T>(pub Vec<T>);

impl<T: Element> FromPyObject<'_, '_> for Values<T> {
    type Error = PyErr;

    fn extract(array: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let refused = || {
            let message = format!("not a one-dimensional array of {}", std::any::type_name::<T>());
            PyTypeError::new_err(message)
        };
        let buffer = PyBuffer::<T>::get(&array).map_err(|_| refused())?;
        if buffer.dimensions() != 1 {
            return Err(refused());
        }
        Ok(Values(buffer.to_vec(array.py())?))
    }
}

/// A number of NumPy's.
pub trait Number: Element {
    const NUMPY_NAME: &str;
}

impl Number for f64 {
    const NUMPY_NAME: &str = "float64";
}

impl Number for u8 {
    const NUMPY_NAME: &str = "uint8";
}

impl Number for u32 {
    const NUMPY_NAME: &str = "uint32";
}

impl Number for u64 {
    const NUMPY_NAME: &str = "uint64";
}

/// Values that Python gets as a new array.
pub struct Array<T>(pub Vec<T>);

impl<T> FromIterator<T> for Array<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Array(values.into_iter().collect())
    }
}

impl<'py, T: Number> IntoPyObject<'py> for Array<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let array = py.import("numpy")?.call_method1("empty", (self.0.len(), T::NUMPY_NAME))?;
        PyBuffer::<T>::get(&array)?.copy_from_slice(py, &self.0)?;
        Ok(array)
    }
}
