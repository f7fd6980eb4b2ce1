//! Test setup: a store in memory, a folder of files, and access keys.

use std::{
    io,
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use steadfast_bucket::{AccessKey, BucketName, Buckets, FileBlobs, KeyScope, account, create_key};
use steadfast_s3::{S3Api, S3Use};
use steadfast_store::{
    Entropy, MemoryStore, PostgresOptions, PostgresStore, Seal, SeededEntropy, SqliteOptions,
    SqliteStore, Store, SystemClock,
};

use crate::sign::sign;

pub(crate) static SEAL: LazyLock<Seal> = LazyLock::new(|| Seal::of_key([1; 32]));

pub(crate) struct Setup {
    pub(crate) api: S3Api,
    pub(crate) buckets: Buckets,
    pub(crate) store: Arc<dyn Store>,
    /// A key without limits.
    pub(crate) key: AccessKey,
    folder: tempfile::TempDir,
}

/// The response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// The use of the access key, if the signature was right.
    pub(crate) used: Option<S3Use>,
}

impl Answer {
    /// The code of an error; empty if it is none.
    pub(crate) fn code(&self) -> &str {
        let code = self.body.split_once("<Code>").and_then(|it| it.1.split_once("</Code>"));
        code.map_or("", |it| it.0)
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status.as_u16(), self.code()), (status, code), "{}", self.body);
        assert!(self.headers.contains_key("x-amz-request-id"));
        self
    }
}

impl Setup {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::on(Arc::new(MemoryStore::new(Arc::new(SystemClock))), folder).await
    }

    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("store"), Arc::new(SystemClock));
        Self::on(Arc::new(SqliteStore::open(options).unwrap()), folder).await
    }

    /// In a schema of its own.
    pub(crate) async fn postgres() -> Self {
        let url = std::env::var("STEADFAST_TEST_POSTGRES")
            .expect("STEADFAST_TEST_POSTGRES names a server; `./test` starts one");
        let (client, connection) =
            tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let schema = format!("s3_{:016x}", SeededEntropy::from_system().next());
        client.batch_execute(&format!("CREATE SCHEMA {schema}")).await.unwrap();
        let url = format!("{url}&options=-c%20search_path%3D{schema}");
        let mut options = PostgresOptions::new(url, Arc::new(SystemClock));
        // The machine may pause for some seconds.
        options.lease = Duration::from_secs(30);
        let store = PostgresStore::open(options).await.unwrap();
        Self::on(Arc::new(store), tempfile::tempdir().unwrap()).await
    }

    async fn on(store: Arc<dyn Store>, folder: tempfile::TempDir) -> Self {
        let entropy = SeededEntropy::new(1);
        let account = account(&*store, &entropy).await.unwrap();
        let blobs = Arc::new(FileBlobs::open(folder.path().join("blobs"), &account).unwrap());
        let buckets = Buckets::builder(store.clone()).open(blobs).await.unwrap();
        for name in ["photos", "other"] {
            buckets.create(&BucketName::new(name).unwrap()).await.unwrap();
        }
        let key = create_key(&*store, &SEAL, KeyScope::default(), None).await.unwrap();
        let api = S3Api::new(buckets.clone(), store.clone(), SEAL.clone());
        Self { api, buckets, store, key, folder }
    }

    pub(crate) async fn key(
        &self,
        bucket: &str,
        prefix: Option<&str>,
        read_only: bool,
    ) -> AccessKey {
        let (bucket, prefix) = (Some(bucket.into()), prefix.map(str::to_owned));
        let scope = KeyScope { bucket, prefix, read_only, ..KeyScope::default() };
        create_key(&*self.store, &SEAL, scope, None).await.unwrap()
    }

    /// Sends a signed request with its body in pieces; the last one may be an error.
    pub(crate) async fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        pieces: Vec<io::Result<Bytes>>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = if pieces.is_empty() {
            // An empty body declares its length, as in HTTP.
            Empty::new().map_err(|never| match never {}).boxed_unsync()
        } else {
            let pieces = pieces.into_iter().map(|it| it.map(Frame::data));
            StreamBody::new(stream::iter(pieces)).boxed_unsync()
        };
        let answer = self.api.answer(request.body(body).unwrap()).await;
        let (mut parts, body) = answer.into_parts();
        let used = parts.extensions.remove();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        Answer { status: parts.status, headers: parts.headers, body, used }
    }

    /// Sends a request whose body is signed as a whole.
    pub(crate) async fn ask_as(
        &self,
        key: &AccessKey,
        (method, target): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let length = body.len().to_string();
        let headers = [headers, &[("content-length", &length)]].concat();
        let payload = crate::sign::hash(body.as_bytes());
        let (headers, _) = sign(key, method, target, &headers, &payload);
        let pieces = body.as_bytes().chunks(1 << 16).map(|it| Ok(Bytes::copy_from_slice(it)));
        let pieces = pieces.collect();
        self.send(method, target, &headers, pieces).await
    }

    /// The same with the key without limits.
    pub(crate) async fn ask(&self, method: &str, target: &str, body: &str) -> Answer {
        self.ask_as(&self.key, (method, target), &[], body).await
    }

    /// Number of files, without the lock, the name of the store and its session.
    pub(crate) fn files(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let found = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
            found.map(|it| if it.is_dir() { count(&it) } else { 1 }).sum()
        }
        count(&self.folder.path().join("blobs")).saturating_sub(3)
    }
}
