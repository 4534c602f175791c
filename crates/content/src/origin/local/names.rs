//! Path names for the kernel, concatenated without allocating because helper processes do that too.

use std::ffi::CStr;

/// The longest path, including the final zero: the kernel's limit.
pub const PATH_BYTES_MAX: usize = 4096;

pub struct Name {
    bytes: [u8; PATH_BYTES_MAX],
    length: usize,
}

impl Name {
    /// Concatenates `parts`; `None` if that is too long or contains a zero. An empty path means the root.
    pub fn of(parts: &[&[u8]]) -> Option<Name> {
        let mut name = Name { bytes: [0; PATH_BYTES_MAX], length: 0 };
        for part in parts {
            name.push(part)?;
        }
        if name.length == 0 {
            name.push(b".")?;
        }
        Some(name)
    }

    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes[..=self.length]).expect("no part has a zero, and one follows")
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, part: &[u8]) -> Option<()> {
        let end = self.length + part.len();
        if end >= PATH_BYTES_MAX || part.contains(&0) {
            return None;
        }
        self.bytes[self.length..end].copy_from_slice(part);
        self.length = end;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let name = |parts: &[&[u8]]| Name::of(parts).map(|name| name.as_c_str().to_owned());
        assert_eq!(name(&[b"dir/", b"index.html", b".gz"]), Some(c"dir/index.html.gz".to_owned()));
        assert_eq!(name(&[b"", b""]), Some(c".".to_owned()));
        assert_eq!(name(&[b"a\0b"]), None);
        assert!(name(&[&[b'a'; PATH_BYTES_MAX - 1]]).is_some());
        assert!(name(&[&[b'a'; PATH_BYTES_MAX]]).is_none());
    }
}
