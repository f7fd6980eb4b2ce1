//! Draws with the embedded provider:
//!
//! ```sh
//! cargo run -p steadfast-generations --example draw -- art "misty hills" 7 512 512 hills.png
//! ```

use std::{error::Error, io::Write, time::Instant};

use serde_json::json;
use steadfast_generations::providers::{Embedded, Provider, Request, Submitted, Task};
use steadfast_images::Pool;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, prompt, seed, width, height, file] = &arguments[..] else {
        return Err("usage: draw art|clip PROMPT SEED WIDTH HEIGHT FILE".into());
    };
    let (width, height): (u32, u32) = (width.parse()?, height.parse()?);
    let input = json!({
        "positivePrompt": prompt, "seed": seed.parse::<u64>()?, "width": width, "height": height,
    });
    let input = input.as_object().cloned().unwrap_or_default();
    let request = Request { model: format!("embedded:{model}@1"), input };
    let provider = Embedded::new(Pool::new("draw", 1)?);
    let checked = provider.check(&request)?;
    let task = Task {
        id: "00000000-0000-4000-8000-000000000000".into(),
        model: request.model,
        kind: checked.kind,
        input: checked.input,
        webhook_url: None,
    };
    let Submitted::Finished(outputs) = provider.submit(&task).await? else {
        return Err("it is not done".into());
    };
    #[expect(clippy::disallowed_methods, reason = "how long it takes is what one wants to see")]
    let start = Instant::now();
    let mut stream = provider.open(&outputs[0].source, 64 << 20).await?;
    eprintln!("{} bytes in {:?}", stream.length().unwrap_or_default(), start.elapsed());
    let mut file = std::fs::File::create(file)?;
    while let Some(chunk) = stream.chunk().await? {
        file.write_all(&chunk)?;
    }
    Ok(())
}
