import socket
import subprocess
import sys

from tests.network import Namespace

TALK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10) as line:
    for told in sys.stdin:
        line.settimeout(1)
        try:
            line.sendall(told.encode())
            print(line.recv(100).decode().strip(), flush=True)
        except TimeoutError:
            print("silence", flush=True)
"""


def test_a_link_that_is_cut_drops_packets_in_silence_and_delivers_them_when_mended() -> None:
    with Namespace() as other, socket.create_server((other.host, 0)) as listening:
        command = [*other.enter, sys.executable, "-c", TALK, other.host, str(listening.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guest:
            line, (address, _) = listening.accept()
            assert address == other.guest

            def say(word: str, *, answer: bool) -> str:
                assert guest.stdin
                assert guest.stdout
                guest.stdin.write(f"{word}\n")
                guest.stdin.flush()
                if answer:
                    line.sendall(line.recv(100).upper())
                return guest.stdout.readline().strip()

            with line:
                assert say("hello", answer=True) == "HELLO"
                other.cut()
                assert say("anybody?", answer=False) == "silence"
                other.mend()
                line.settimeout(30)
                assert line.recv(100) == b"anybody?\n", "what was sent meanwhile is sent again by the kernel"
                assert guest.stdin
                guest.stdin.close()
                guest.wait(timeout=30)


def test_a_closed_network_namespace_leaves_nothing_behind() -> None:
    with Namespace() as other:
        pass
    named = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert other.name not in named
    assert other.name.removeprefix("duly-") not in links
