//! Tests of the solvers and the simulator through the public interface: against exact results, and on every system file
//! in the repository.

mod oracles;
mod systems;
