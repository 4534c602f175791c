//! The memory to walk: mapped with or without huge pages, and touched before timing.

use std::ffi::c_void;
use std::{fs, io, ptr, slice};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use serde::Serialize;

use super::WORD_BYTES;
use crate::Reading;

/// The huge page size of x86-64, to which mappings for huge pages are aligned.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Whether to use huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HugePages {
    Off,
    /// Transparent huge pages (MADV_HUGEPAGE), if the kernel supports them and finds room.
    On,
}

/// Mapped memory, zeroed by touching it.
#[derive(Debug)]
pub struct Arena {
    mapping: *mut c_void,
    mapped_bytes: usize,
    start: *mut u64,
    words: usize,
}

impl Arena {
    /// Maps and touches `bytes` of memory.
    pub fn new(bytes: usize, huge_pages: HugePages) -> io::Result<Arena> {
        let mapped_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        // SAFETY: a new anonymous mapping at an address that the kernel chooses.
        let mapping = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let start = mapping.map_addr(|address| address.next_multiple_of(HUGE_PAGE_BYTES)).cast();
        let mut arena = Arena { mapping, mapped_bytes, start, words: bytes.div_ceil(WORD_BYTES) };
        let advice = match huge_pages {
            HugePages::Off => Advice::LinuxNoHugepage,
            HugePages::On => Advice::LinuxHugepage,
        };
        // SAFETY: the advice changes how the mapping is backed, not its content. A kernel without huge pages refuses
        // it, which `huge_page_bytes` then shows.
        let _ = unsafe { madvise(mapping, mapped_bytes, advice) };
        arena.words().fill(0);
        Ok(arena)
    }

    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping has this size, is aligned, initialised by the kernel, and borrowed like `self`.
        unsafe { slice::from_raw_parts_mut(self.start, self.words) }
    }

    /// Bytes actually backed by huge pages; the kernel may grant fewer than requested.
    pub fn huge_page_bytes(&self) -> Reading<u64> {
        let smaps = match fs::read_to_string("/proc/self/smaps") {
            Ok(text) => text,
            Err(error) => return Reading::unavailable(format!("/proc/self/smaps: {error}")),
        };
        huge_page_bytes(&smaps, self.start.addr())
            .map_or_else(|| Reading::unavailable("/proc/self/smaps has no AnonHugePages"), Reading::Value)
    }
}

/// AnonHugePages of the mapping that contains the address.
fn huge_page_bytes(smaps: &str, address: usize) -> Option<u64> {
    let holds = |line: &str| {
        let (low, high) = line.split(' ').next()?.split_once('-')?;
        let bound = |text| usize::from_str_radix(text, 16).ok();
        Some((bound(low)?..bound(high)?).contains(&address))
    };
    let mut lines = smaps.lines().skip_while(|line| holds(line) != Some(true));
    let field = lines.find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    field.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|count| count << 10)
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        unsafe { munmap(self.mapping, self.mapped_bytes) }.expect("what was mapped can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_written_to_its_end() {
        let mut arena = Arena::new(3 << 20, HugePages::Off).unwrap();
        assert_eq!(arena.words().len(), (3 << 20) / WORD_BYTES);
        *arena.words().last_mut().unwrap() = 7;
        assert!(arena.words().iter().sum::<u64>() == 7);
        assert!(matches!(arena.huge_page_bytes(), Reading::Value(0)), "{:?}", arena.huge_page_bytes());
    }

    #[test]
    fn finds_its_mapping_among_others() {
        let smaps =
            "1000-2000 rw-p 0 0 0\nAnonHugePages:   4 kB\n2000-3000 rw-p 0 0 0\nAnonHugePages:   2048 kB\n";
        assert_eq!(huge_page_bytes(smaps, 0x2fff), Some(2 << 20));
        assert_eq!(huge_page_bytes(smaps, 0x3000), None);
    }
}
