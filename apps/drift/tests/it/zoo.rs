//! The probe among servers that misbehave. Names resolve to public addresses, and those lead to
//! servers of this machine: the policy under test is the one that strangers meet.

mod answers;
mod bodies;
#[path = "../../../../crates/egress/tests/ssrf/doubles.rs"]
mod doubles;
mod encrypted;
mod keeper;
mod redirects;
mod refused;
