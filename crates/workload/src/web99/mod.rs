//! A file set that grows with the load, and its request distribution, as SPECweb99 describes them. SPECweb99 is a
//! trademark, and results with this file set are not SPECweb99 results.
//!
//! [`requests`] has the kinds of requests and their shares, [`advertisements`] and [`page`] what an application does for those
//! that are dynamic.
//!
//! There are 25 + 0.66 L directories for L connections, each with four classes of nine files: 102 bytes to
//! 900 KB, 4.88 MiB together. Directories and the files of a class are popular by Zipf's law.

pub mod advertisements;
pub mod page;
pub mod requests;

/// The target rate of a connection: the next request waits until the bytes would have taken this long.
pub const BITS_PER_SECOND: f64 = 400_000.0;
/// The highest load: ten times the highest result published in its day.
pub const LOAD_MAX: u32 = 100_000;

const CLASS_WEIGHTS: [f64; 4] = [0.35, 0.50, 0.14, 0.01];
const FILES: usize = 9;
const CLASSES: usize = CLASS_WEIGHTS.len();
/// The files of a class in the order of their popularity.
const FILE_RANKS: [usize; FILES] = [4, 3, 5, 2, 6, 1, 7, 8, 0];

#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// The path below the site.
    pub path: String,
    pub size_bytes: u64,
    /// The class of the file's size, smallest first.
    pub class: usize,
    pub share: f64,
}

pub fn directories(load: u32) -> u32 {
    // The workload's constants: the bits per second of a connection over those of a mean response.
    (25.0 + BITS_PER_SECOND / 122_000.0 * f64::from(load) / 5.0) as u32
}

/// Lists all files for this many connections, directory by directory.
pub fn files(load: u32) -> impl Iterator<Item = File> {
    let directories = directories(load);
    let directory_sum: f64 = (1..=directories).map(|rank| 1.0 / f64::from(rank)).sum();
    let file_sum: f64 = (1..=FILES).map(|rank| 1.0 / rank as f64).sum();
    let file_share = move |file: usize| {
        let rank = 1 + FILE_RANKS.iter().position(|&ranked| ranked == file).unwrap_or(FILES);
        1.0 / rank as f64 / file_sum
    };
    (0..directories).flat_map(move |directory| {
        let directory_share = 1.0 / f64::from(directory + 1) / directory_sum;
        (0..CLASSES * FILES).map(move |index| {
            let (class, file) = (index / FILES, index % FILES);
            File {
                path: format!("/file_set/dir{directory:05}/class{class}_{file}"),
                size_bytes: 1024 * 10_u64.pow(class as u32) * (file as u64 + 1) / 10,
                class,
                share: directory_share * CLASS_WEIGHTS[class] * file_share(file),
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_set() {
        assert_eq!([100, 200, 1000, 3000].map(directories), [90, 156, 680, 1992]);
        let files: Vec<File> = files(100).collect();
        assert_eq!(files.len(), 90 * 36);
        let directory: u64 = files[..36].iter().map(|file| file.size_bytes).sum();
        assert_eq!(directory, 5_119_484);
        let sizes: Vec<u64> = files[..9].iter().map(|file| file.size_bytes).collect();
        assert_eq!(sizes, [102, 204, 307, 409, 512, 614, 716, 819, 921]);
        assert_eq!(files[35].path, "/file_set/dir00000/class3_8");
        assert_eq!((files[35].size_bytes, files[18].size_bytes), (921_600, 10_240));
    }

    #[test]
    fn popularity() {
        let files: Vec<File> = files(200).collect();
        let share = |belongs: &dyn Fn(&File) -> bool| -> f64 {
            files.iter().filter(|file| belongs(file)).map(|file| file.share).sum()
        };
        assert!((share(&|_| true) - 1.0).abs() < 1e-9);
        assert!((share(&|file| file.class == 1) - 0.5).abs() < 1e-6);
        assert!((share(&|file| file.path.ends_with("_4")) - 0.3535).abs() < 1e-4);
        assert!((share(&|file| file.path.ends_with("_0")) - 0.0393).abs() < 1e-4);
        let ratio =
            share(&|file| file.path.contains("dir00000")) / share(&|file| file.path.contains("dir00009"));
        assert!((ratio - 10.0).abs() < 1e-3, "{ratio}");
        let mean: f64 = files.iter().map(|file| file.share * file.size_bytes as f64).sum();
        assert!((mean - 14_727.0).abs() < 1.0, "{mean}");
    }
}
