//! The registry: it gives fines their numbers.

use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast_core::{Failure, process::Execute};

use crate::{
    recorded_answers::RecordedAnswers,
    traffic_fine::{Input, Output, TrafficFine},
};

/// The report that is in every example, with the number and the code it has there.
const EXAMPLE: (&str, &str, &str) = ("XG.96.L1.5000267/2023", "PPXRG/23TV8457", "XMfhyM");

const CAPITALS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DIGITS: &[u8] = b"0123456789";

/// Makes numbers and codes, and sends letters: one for each command, however often it is repeated.
#[derive(Debug)]
pub struct FineRegistry {
    answers: RecordedAnswers,
    letters: AtomicUsize,
}

impl Default for FineRegistry {
    fn default() -> Self {
        Self { answers: RecordedAnswers::in_memory("office"), letters: AtomicUsize::new(0) }
    }
}

impl FineRegistry {
    /// The answers that it remembers.
    pub fn answers(&self) -> &RecordedAnswers {
        &self.answers
    }

    /// How many letters it has sent since it opened.
    pub fn letters(&self) -> usize {
        self.letters.load(Ordering::Relaxed)
    }
}

impl Execute<TrafficFine> for FineRegistry {
    async fn execute(&self, output: Output, key: &str) -> Result<Option<Input>, Failure> {
        if let Some(answer) = self.answers.find(key).await? {
            return Ok(answer);
        }
        let answer = match output {
            Output::GenerateTrafficFineSystemNumber { police_report_id } => {
                let number = system_number(&police_report_id);
                Some(Input::TrafficFineSystemNumberGenerated { police_report_id, number })
            }
            Output::GenerateTrafficFineManualIdentificationCode {
                police_report_id,
                system_number: number,
            } => {
                let code = manual_code(&police_report_id);
                Some(Input::TrafficFineManualIdentificationCodeGenerated {
                    police_report_id,
                    number,
                    code,
                })
            }
            // The letter goes out; nobody answers.
            Output::IssueTrafficFine { .. } => {
                self.letters.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        self.answers.keep(key, answer).await
    }
}

fn system_number(report: &str) -> String {
    let (example, number, _) = EXAMPLE;
    if report == example { number.into() } else { fill("AAAAA/99AA9999", report) }
}

fn manual_code(report: &str) -> String {
    let (example, _, code) = EXAMPLE;
    if report == example { code.into() } else { fill("aaaaaa", report) }
}

/// Replaces `A` by capitals, `a` by letters and `9` by digits, as the report says.
fn fill(pattern: &str, report: &str) -> String {
    let mut left = hash(report);
    let mut pick = |from: &[u8]| {
        let len = from.len() as u64;
        let picked = from[(left % len) as usize];
        left /= len;
        char::from(picked)
    };
    pattern
        .chars()
        .map(|place| match place {
            'A' => pick(CAPITALS),
            'a' => pick(LETTERS),
            '9' => pick(DIGITS),
            other => other,
        })
        .collect()
}

/// FNV-1a: unlike the hasher of the standard library it will be the same tomorrow.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
