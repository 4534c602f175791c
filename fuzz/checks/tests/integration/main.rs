//! The fuzz targets' checks on a stable compiler: over the committed corpora, their mutations, and bytes made of likely
//! parts.

mod corpora;
mod mutations;
mod parts;
