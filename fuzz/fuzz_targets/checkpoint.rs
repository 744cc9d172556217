#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (spectral_attacks::target("checkpoint").expect("it is there").run)(bytes));
