//! Configuration of the roles: defaults, then a TOML file, then `WHARF_*` environment variables, then flags.
//!
//! Unknown keys are errors in every source. Byte sizes and times are whole numbers whose names end in their unit.

mod standalone;

pub use standalone::{StandaloneArgs, StandaloneConfig};
