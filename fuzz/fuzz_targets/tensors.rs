#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (spectral_attacks::target("tensors").expect("it is there").run)(bytes));
