//! An end of the process before and after every commit from upload to result.

use steadfast::{Object, test::assert_survives_crashes};
use steadfast_uploads::{GetUploads, OrganizationAgent, Status, UPLOADS};

use crate::stage::{ACME, Fake, program};

#[tokio::test]
async fn no_end_of_the_process_loses_doubles_or_confuses_an_image() {
    let fake = Fake::default();
    let survived = assert_survives_crashes(
        || program(&fake, true),
        async |app| {
            let uploads = app.bucket(UPLOADS);
            // Who was cut off does not know, looks, and does the rest.
            if uploads.head("acme/a.png").await?.is_none() {
                uploads.put("acme/a.png", "cat").await?;
            }
            if uploads.head("acme/b.png").await?.is_none_or(|it| it.sequence == 1) {
                uploads.put("acme/b.png", "cat").await?;
                uploads.put("acme/b.png", "dog").await?;
            }
            uploads.put("acme/c.png", "cat").await?;
            uploads.delete("acme/c.png").await?;
            app.settle().await;
            let all = GetUploads { limit: 9, ..GetUploads::default() };
            let mut shown = Vec::new();
            for upload in app.call(OrganizationAgent::at(ACME), all).await? {
                let blob = uploads.head(&format!("{ACME}/{}", upload.name)).await?;
                let blob = blob.expect("a row without an image");
                assert_eq!(blob.version(), upload.version, "{}", upload.name);
                assert_eq!(upload.status, Status::Classified);
                shown.push((upload.name, upload.classification_label));
            }
            shown.sort();
            Ok(shown)
        },
    );
    assert!(30 < survived.await);
}
