"""The calculator in a report: what-if controls for a system file, solved in the page by the models in WebAssembly."""
