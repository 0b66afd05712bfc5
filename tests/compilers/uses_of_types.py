# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
from typing import Literal, assert_type

from numpy import uint8, zeros
from painter import MODEL, PainterClient, PainterMessage, Point2, connect

from reactor_trio.client import Client, Frame, Upload, record


async def right(upload: Upload) -> None:
    async with connect("ws://127.0.0.1:8080/ws", video=["jpeg"], token="t", model=MODEL) as client:
        assert_type(client, PainterClient)
        assert_type(await client.command("set_brightness", brightness=0.5), None)
        await client.command("set_brightness", brightness=1)
        await client.command("set_mood", mood="calm")
        await client.command("set_mood", mood=None)
        await client.command("reset")
        await client.command("reset", hard=True)
        await client.command("stop")
        assert_type(await client.command("size", file=await client.upload("cat.png")), int)
        await client.command("draw", path=[{"x": 1}, {"x": 1, "y": 2}])
        assert_type(await client.command("draw", path=[], pen=(1, "a")), list[Point2 | int])
        grown = await client.command("grow", tree={"name": "a", "children": [{"name": "b", "children": []}]})
        assert_type(grown["children"][0]["name"], str)
        async for message in client.messages():
            assert_type(message, PainterMessage)
            if message.type == "progress":
                assert_type(message.data["done"], int)
                assert_type(message.data["note"], str)
            elif message.type == "finished":
                assert_type(message.data["seconds"], float | None)
            else:
                assert_type(message.type, Literal["reactor.error"])
                assert_type(message.data["code"], str)
        async for frame in client.frames("main_video", latest=True):
            assert_type(frame, Frame)
        await client.push_video("camera", zeros((4, 4, 3), uint8), codec="jpeg")
        await client.push_audio("microphone", [0])
        plain: Client = client
        async with record(plain, "out.mp4"):
            pass


async def wrong(client: PainterClient) -> None:
    await client.command("set_contrast", contrast=1)  # type: ignore
    await client.command("set_brightness")  # type: ignore
    await client.command("set_brightness", value=1)  # type: ignore
    await client.command("set_brightness", brightness=1, contrast=1)  # type: ignore
    await client.command("set_brightness", brightness="1")  # type: ignore
    await client.command("set_brightness", brightness=None)  # type: ignore
    await client.command("set_mood", mood="angry")  # type: ignore
    await client.command("stop", now=True)  # type: ignore
    await client.command("reset", hard="yes")  # type: ignore
    await client.command("reset", hard=None)  # type: ignore
    await client.command("size", file="cat.png")  # type: ignore
    await client.command("size", file={"upload_id": "u"})  # type: ignore
    await client.command("draw", path=[{"y": 1}])  # type: ignore
    await client.command("draw", path=[{"x": 1, "z": 1}])  # type: ignore
    await client.command("draw", path=[], pen=(1,))  # type: ignore
    await client.command("draw", path=[], pen=("a", 1))  # type: ignore
    await client.command("grow", tree={"name": "a", "children": [{"name": "b"}]})  # type: ignore
    _ = (await client.command("stop")).real  # type: ignore
    _ = (await client.command("draw", path=[])).real  # type: ignore
    client.frames("sky")  # type: ignore
    client.frames("camera")  # type: ignore
    await client.push_video("main_video", [])  # type: ignore
    await client.push_audio("camera", [])  # type: ignore
    async for message in client.messages():
        if message.type == "failed":  # type: ignore
            pass
        message.data["done"]  # type: ignore
        if message.type == "progress":
            message.data["left"]  # type: ignore
    async with connect("ws://127.0.0.1:8080/ws", colour=True) as _:  # type: ignore
        pass
