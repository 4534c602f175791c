//! The store under real processes, and what it costs in memory.

mod disk;
mod memory_cost;
