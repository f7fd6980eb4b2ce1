//! The inputs and outputs of a traffic fine.

use serde::{Deserialize, Serialize};

/// An input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub enum Input {
    /// The police have seen something.
    PoliceReportPublished { police_report_id: String, offense: Offense },
    /// The fine has a number.
    TrafficFineSystemNumberGenerated { police_report_id: String, number: String },
    /// The fine has a code, too.
    TrafficFineManualIdentificationCodeGenerated {
        police_report_id: String,
        number: String,
        code: String,
    },
}

/// The offense in a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub enum Offense {
    /// Too fast.
    SpeedingViolation { maximum_speed: String },
    /// In the wrong place.
    ParkingViolation,
}

/// An output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub enum Output {
    /// Asks for a number.
    GenerateTrafficFineSystemNumber { police_report_id: String },
    /// Asks for a code.
    GenerateTrafficFineManualIdentificationCode { police_report_id: String, system_number: String },
    /// Asks for the fine to be sent.
    IssueTrafficFine {
        police_report_id: String,
        system_number: String,
        manual_identification_code: String,
    },
}

impl Input {
    /// The report that all of this is about.
    pub fn police_report_id(&self) -> &str {
        let (Self::PoliceReportPublished { police_report_id, .. }
        | Self::TrafficFineSystemNumberGenerated { police_report_id, .. }
        | Self::TrafficFineManualIdentificationCodeGenerated { police_report_id, .. }) = self;
        police_report_id
    }
}
