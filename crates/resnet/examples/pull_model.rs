//! Fetches ResNet-50 into a folder: `pull_model FOLDER [FILE]`. For the tests; everybody else has
//! `steadfast models pull resnet-50`.

use std::{cell::Cell, error::Error, path::PathBuf};

use steadfast_resnet::pull;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("give a folder for the model")?;
    let last = Cell::new(None);
    pull(&folder, arguments.next().as_deref(), |progress| {
        if last.replace(Some(progress)) != Some(progress) {
            eprintln!("{:?} {} %", progress.stage, progress.percent);
        }
    })?;
    Ok(())
}
