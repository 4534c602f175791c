//! The models in a report: `sojourn-queueing` as WebAssembly, with JSON in linear memory and no other glue.
//!
//! A page calls [`allocate`], writes a request there, and calls [`answer`]; the response stands at the address that
//! [`answer`] returns, behind its length, until the next call. [`request`] says what can be asked. The page's side is
//! `python/sojourn/report/what_if/models.js`.

mod request;

use std::cell::RefCell;

/// The largest request: a system file and its settings many times over.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// The memory that a page writes to and reads from.
#[derive(Default)]
struct Memory {
    request: Vec<u8>,
    /// Four bytes of length, little-endian, then the JSON.
    response: Vec<u8>,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// The address of room for a request of `bytes` bytes; null if it is too large.
#[unsafe(no_mangle)]
pub extern "C" fn allocate(bytes: usize) -> *mut u8 {
    if bytes > REQUEST_BYTES_MAX {
        return std::ptr::null_mut();
    }
    MEMORY.with_borrow_mut(|memory| {
        memory.request = vec![0; bytes];
        memory.request.as_mut_ptr()
    })
}

/// Answers the request in the room that was allocated last; returns the response's address.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    let request = MEMORY.with_borrow_mut(|memory| std::mem::take(&mut memory.request));
    let response = request::answer(&request, &mut should_continue);
    MEMORY.with_borrow_mut(|memory| {
        memory.response = (response.len() as u32).to_le_bytes().to_vec();
        memory.response.extend_from_slice(response.as_bytes());
        memory.response.as_ptr()
    })
}

#[cfg(target_arch = "wasm32")]
fn should_continue(jobs: u64) -> bool {
    #[link(wasm_import_module = "sojourn")]
    unsafe extern "C" {
        /// The page's function: takes the number of jobs so far, and returns 0 to stop.
        fn progress(jobs: f64) -> u32;
    }
    // SAFETY: an import without pointers.
    unsafe { progress(jobs as f64) != 0 }
}

#[cfg(not(target_arch = "wasm32"))]
fn should_continue(_jobs: u64) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::{allocate, answer};

    #[test]
    fn a_request_and_its_response_cross_the_memory() {
        let request = br#"{"do": "write", "system": "a = 1"}"#;
        let room = allocate(request.len());
        // SAFETY: `allocate` made room for this many bytes, and nothing else uses it until `answer`.
        unsafe { std::ptr::copy_nonoverlapping(request.as_ptr(), room, request.len()) };
        let response = answer();
        // SAFETY: the response is four bytes of length and then that many bytes, until the next call.
        let text = unsafe {
            let length = u32::from_le_bytes(*response.cast::<[u8; 4]>());
            std::slice::from_raw_parts(response.add(4), length as usize)
        };
        assert_eq!(text, br#"{"ok":"a = 1\n"}"#);
    }

    #[test]
    fn a_request_that_is_too_large_has_no_room() {
        assert!(allocate(super::REQUEST_BYTES_MAX + 1).is_null());
    }
}
