#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| steadfast_uploads::classifier::fuzz::workers_ai(data));
