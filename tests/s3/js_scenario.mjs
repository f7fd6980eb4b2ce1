// Claims about an S3 endpoint, tried with the unmodified AWS SDK for JavaScript, and with `fetch`
// of Node. `tests/s3-clients run js` starts it. An argument runs only the claims whose text
// contains it.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

// The packages are in the cache of the clients, not beside this file.
const load = createRequire(`${process.env.S3_JS_MODULES}/`);
const S3 = load("@aws-sdk/client-s3");
const { Upload } = load("@aws-sdk/lib-storage");
const { getSignedUrl } = load("@aws-sdk/s3-request-presigner");

const endpoint = process.env.AWS_ENDPOINT_URL;
const Bucket = `js-${process.pid}`;
const s3 = new S3.S3Client({ forcePathStyle: true });
const send = (name, input = {}) => s3.send(new S3[`${name}Command`]({ Bucket, ...input }));
const claims = [];
const claim = (text, body) => claims.push([text, body]);

async function refused(code, promise) {
  await assert.rejects(promise, (error) => error.name === code || assert.fail(`${error}`));
}

claim("create a bucket, and see it in the list", async () => {
  await send("CreateBucket");
  const listed = await s3.send(new S3.ListBucketsCommand({}));
  assert.ok(listed.Buckets.some((it) => it.Name === Bucket));
});

claim("put, get, head, list and delete, with the checksums of the defaults", async () => {
  const Key = "a/ü b+%";
  const put = await send("PutObject", { Key, Body: "hello", ContentType: "text/x" });
  assert.match(put.ChecksumCRC32, /=$/);
  const got = await send("GetObject", { Key });
  assert.equal(await got.Body.transformToString(), "hello");
  assert.equal(got.ContentType, "text/x");
  assert.equal((await send("HeadObject", { Key })).ContentLength, 5);
  const listed = await send("ListObjectsV2", { Prefix: "a/" });
  assert.deepEqual(listed.Contents.map((it) => it.Key), [Key]);
  await send("DeleteObject", { Key });
  await refused("NoSuchKey", send("GetObject", { Key }));
});

claim("a stream in parts", async () => {
  const body = Buffer.alloc(12_000_000, "0123456789");
  const params = { Bucket, Key: "parts", Body: new Blob([body]).stream() };
  const done = await new Upload({ client: s3, params, partSize: 5 << 20 }).done();
  assert.match(done.ETag, /-3"$/);
  const got = await send("GetObject", { Key: "parts" });
  assert.ok(body.equals(Buffer.from(await got.Body.transformToByteArray())));
});

claim("presigned URLs work with fetch", async () => {
  const Key = "presigned";
  const put = await getSignedUrl(s3, new S3.PutObjectCommand({ Bucket, Key }));
  const sent = await fetch(put, { method: "PUT", body: "sent" });
  assert.equal(sent.status, 200, await sent.text());
  const get = await getSignedUrl(s3, new S3.GetObjectCommand({ Bucket, Key }));
  const got = await fetch(get);
  assert.deepEqual([got.status, await got.text()], [200, "sent"]);
});

claim("CORS rules are put, shown, used and deleted", async () => {
  const origin = "https://app.example";
  const rule = { AllowedOrigins: [origin], AllowedMethods: ["GET"], ExposeHeaders: ["ETag"] };
  await send("PutBucketCors", { CORSConfiguration: { CORSRules: [rule] } });
  const [shown] = (await send("GetBucketCors")).CORSRules;
  const { ID, AllowedOrigins, AllowedMethods, ExposeHeaders } = shown;
  assert.equal(ID, "rule-1");
  assert.deepEqual({ AllowedOrigins, AllowedMethods, ExposeHeaders }, rule);
  const get = await getSignedUrl(s3, new S3.GetObjectCommand({ Bucket, Key: "presigned" }));
  const got = await fetch(get, { headers: { origin } });
  await got.text();
  assert.equal(got.headers.get("access-control-allow-origin"), origin);
  await send("DeleteBucketCors");
  await refused("NoSuchCORSConfiguration", send("GetBucketCors"));
});

claim("the refusal of a form is readable", async () => {
  const form = new FormData();
  form.set("file", new Blob([Buffer.alloc(12 << 20)]), "a.bin");
  const answer = await fetch(`${endpoint}/${Bucket}`, { method: "POST", body: form });
  const text = await answer.text();
  assert.equal(answer.status, 501, text);
  assert.match(text, /forms are not supported/);
});

claim("wrong keys and unknown buckets are refused", async () => {
  const credentials = { accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: "wrong" };
  const wrong = new S3.S3Client({ forcePathStyle: true, credentials });
  await refused("SignatureDoesNotMatch", wrong.send(new S3.ListObjectsV2Command({ Bucket })));
  await refused("NoSuchBucket", send("ListObjectsV2", { Bucket: `${Bucket}-not-there` }));
});

claim("delete what is left, and the bucket", async () => {
  const Objects = [{ Key: "parts" }, { Key: "presigned" }];
  const deleted = await send("DeleteObjects", { Delete: { Objects } });
  assert.equal(deleted.Deleted.length, 2);
  await send("DeleteBucket");
});

const wanted = process.argv[2] ?? "";
let failed = 0;
for (const [text, body] of claims.filter(([text]) => text.includes(wanted))) {
  try {
    await body();
    console.log(`ok ${text}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${text}: ${error.stack}`);
  }
}
if (failed > 0) {
  console.error(`js_scenario.mjs: ${failed} claims do not hold`);
  process.exitCode = 1;
}
