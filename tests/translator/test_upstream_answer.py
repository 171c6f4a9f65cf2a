"""What is read of an upstream's answer before its body."""

import asyncio
from email.utils import parsedate_to_datetime

import pytest

from tests.translator.test_upstream_guard import door, post
from translator.core.retry_after import told_retry_after
from translator.upstream import Answer, UpstreamClient, UpstreamUnreadable

BUSY = "HTTP/1.1 429 Busy\r\nretry-after: {until}\r\ncontent-length: 0\r\nconnection: close\r\n{more}\r\n"
FAR = "Wed, 21 Oct 2099 07:28:00 GMT"


async def answer_of(text: str) -> Answer:
    client = UpstreamClient(allowed=["127.0.0.1"])
    try:
        async with door("127.0.0.1", answer=text.encode()) as upstream:
            answer = await post(client, f"http://127.0.0.1:{upstream.port}/v1")
            await answer.aclose()
            return answer
    finally:
        await client.aclose()


async def test_an_answer_without_a_date_has_that_of_its_arrival() -> None:
    answer = await answer_of(BUSY.format(until=FAR, more=""))

    assert parsedate_to_datetime(answer.headers["date"]) < parsedate_to_datetime(FAR)
    assert told_retry_after(answer.headers) == {"retry-after": "60"}


async def test_a_date_of_the_upstreams_stays() -> None:
    answer = await answer_of(BUSY.format(until=FAR, more=f"date: {FAR}\r\n"))

    assert answer.headers["date"] == FAR
    assert told_retry_after(answer.headers) == {"retry-after": "1"}


async def test_an_answer_that_cannot_be_read_is_hung_up_on() -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ntransfer-encoding: chunked\r\n\r\n")
        while await reader.read(4096):
            pass
        writer.close()
        gone.set()

    client = UpstreamClient(allowed=["127.0.0.1"])
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with pytest.raises(UpstreamUnreadable) as unreadable:
        await post(client, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")

    await asyncio.wait_for(gone.wait(), 30)
    assert "br" in str(unreadable.value)
    await client.aclose()
    server.close()
