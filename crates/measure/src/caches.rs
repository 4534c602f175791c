//! The caches of a core as sysfs describes them; the plateaus of a memory sweep are compared with them.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::Reading;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Cache {
    /// 1 is closest to the core.
    pub level: u8,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    pub size_bytes: u64,
    pub line_bytes: u64,
    /// The cores that share it, in the kernel's format. Other virtual machines on the same cache are not included.
    pub shared_by: String,
}

/// The caches of a core, closest first.
pub fn of_core(core: usize) -> Reading<Vec<Cache>> {
    read(Path::new(&format!("/sys/devices/system/cpu/cpu{core}/cache")))
}

fn read(folder: &Path) -> Reading<Vec<Cache>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Reading::unavailable(format!("{} is not there", folder.display()));
    };
    let indices = entries.flatten().map(|entry| entry.path());
    let mut caches: Vec<Cache> = indices.filter_map(|index| cache(&index)).collect();
    if caches.is_empty() {
        return Reading::unavailable(format!("{} describes no cache", folder.display()));
    }
    caches.sort_by(|one, other| (one.level, &one.kind).cmp(&(other.level, &other.kind)));
    Reading::Value(caches)
}

fn cache(index: &Path) -> Option<Cache> {
    let field = |name| Some(fs::read_to_string(index.join(name)).ok()?.trim().to_owned());
    Some(Cache {
        level: field("level")?.parse().ok()?,
        kind: field("type")?,
        size_bytes: size(&field("size")?)?,
        line_bytes: field("coherency_line_size")?.parse().ok()?,
        shared_by: field("shared_cpu_list")?,
    })
}

/// Parses a size such as `48K`.
fn size(text: &str) -> Option<u64> {
    let (number, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let folder = tempfile::tempdir().unwrap();
        for (index, level, kind, size) in [(0, "2", "Unified", "2048K"), (1, "1", "Data", "48K")] {
            let index = folder.path().join(format!("index{index}"));
            fs::create_dir(&index).unwrap();
            let fields = [("level", level), ("type", kind), ("size", size), ("coherency_line_size", "64")];
            for (name, value) in fields.into_iter().chain([("shared_cpu_list", "0-1")]) {
                fs::write(index.join(name), format!("{value}\n")).unwrap();
            }
        }
        let Reading::Value(caches) = read(folder.path()) else { panic!("two caches are described") };
        let seen: Vec<_> = caches.iter().map(|cache| (cache.level, cache.size_bytes)).collect();
        assert_eq!(seen, [(1, 48 << 10), (2, 2 << 20)]);
    }

    #[test]
    fn what_is_not_described_is_said() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read(folder.path()), Reading::Unavailable(_)));
        assert!(matches!(read(&folder.path().join("none")), Reading::Unavailable(_)));
        assert_eq!((size("1M"), size("64"), size("K"), size("-")), (Some(1 << 20), Some(64), None, None));
    }
}
