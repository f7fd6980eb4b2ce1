"""TLS in front of an endpoint that has none: tls_relay.py HOST PORT FOLDER

Clients behave differently over TLS: they no longer sign bodies, and send checksums in trailers. The
relay takes TLS away and passes on every byte, so that what was signed stays as it was. It puts
cert.pem into the folder, prints its URL, and runs until its standard input ends.
"""

import asyncio
import ssl
import subprocess
import sys


def certificate(folder):
    cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        + ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        + ["-out", cert, "-keyout", key],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


async def pump(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass  # one side has gone; so does the other, below
    finally:
        writer.close()


async def main(host, port, folder):
    async def relay(reader, writer):
        try:
            there = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=certificate(folder))
    print(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


asyncio.run(main(*sys.argv[1:]))
