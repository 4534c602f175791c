"""A FastCGI responder that listens on its standard input: it answers with what it was told, one connection at a time."""

import os
import socket
import sys
import time


def exactly(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def pairs(data):
    def length():
        nonlocal data
        if data[0] < 128:
            value, data = data[0], data[1:]
        else:
            value, data = int.from_bytes(data[:4], "big") & 0x7FFFFFFF, data[4:]
        return value

    found = {}
    while data:
        name, value = length(), length()
        found[data[:name].decode()] = data[name : name + value].decode()
        data = data[name + value :]
    return found


def record(kind, content):
    return bytes([1, kind, 0, 1]) + len(content).to_bytes(2, "big") + b"\0\0" + content


def serve(connection):
    while True:
        parameters, body = b"", b""
        keeps = False
        while True:
            header = exactly(connection, 8)
            content = exactly(connection, int.from_bytes(header[4:6], "big"))
            exactly(connection, header[6])
            if header[1] == 1:
                keeps = bool(content[2] & 1)
            elif header[1] == 4:
                parameters += content
            elif header[1] == 5:
                if not content:
                    break
                body += content
        told = pairs(parameters)
        if told["PATH_INFO"].endswith("/die"):
            os._exit(3)
        if told["PATH_INFO"].endswith("/sleep"):
            time.sleep(0.2)
        if told["PATH_INFO"].endswith("/hang"):
            time.sleep(5)
        text = f"{os.getpid()} {told['REQUEST_METHOD']} {told['DOCUMENT_URI']} {told['CONTENT_LENGTH']} {len(body)}"
        answer = f"Content-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
        connection.sendall(record(6, answer) + record(6, b"") + record(3, bytes(8)))
        if not keeps:
            return


listener = socket.socket(fileno=os.dup(0))
print("ready", file=sys.stderr)
while True:
    connection, _ = listener.accept()
    try:
        serve(connection)
    except (EOFError, ConnectionError):
        pass
    connection.close()
