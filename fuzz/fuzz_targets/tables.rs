#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (spectral_attacks::target("tables").expect("it is there").run)(bytes));
