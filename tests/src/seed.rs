//! Random numbers that can be had again.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// A generator for the test of this name; its seed is printed. The environment variable `WHARF_TEST_SEED` sets it.
///
/// # Panics
/// If the variable is no number.
#[must_use]
pub fn rng(test: &str) -> StdRng {
    let seed = std::env::var("WHARF_TEST_SEED")
        .map_or_else(|_| default_seed(test), |text| text.parse().expect("WHARF_TEST_SEED is a number"));
    eprintln!("{test}: WHARF_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// The same in each run, another for each test: FNV-1a of the name.
fn default_seed(test: &str) -> u64 {
    test.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
