#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| steadfast_s3::fuzz::continuation(data));
