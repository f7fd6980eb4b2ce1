#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| steadfast_drift::explain::fuzz::chat(data));
