//! The fuzz targets' checks on a stable compiler: over the committed corpora, and over bytes made of likely parts.

mod corpora;
mod parts;
