//! The solvers and the simulator from outside: against exact results, and on every system file that ships.

mod oracles;
mod systems;
