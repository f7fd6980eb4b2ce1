#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| steadfast_server::fuzz::cursor(data));
