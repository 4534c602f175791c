"""The full citations of the sources that studies name: authors, title, where and when."""

from __future__ import annotations

SOURCES = {
    "The thesis": "Yasuyuki Fujita: Performance Modeling and Evaluation of Web Server Systems with Proxy Caching. "
    "Graduate School of Engineering Science, Osaka University, January 2000",
    "Flash (USENIX 1999)": "Vivek S. Pai, Peter Druschel, Willy Zwaenepoel: Flash: An Efficient and Portable Web "
    "Server. Proceedings of the USENIX Annual Technical Conference, Monterey, June 1999",
    "The diskless study": "Tom Keller, Mike Kistler, Ram Rajamony, Freeman Rawson: A Study of the Performance of "
    "Diskless Web Servers. IBM Research Report, Austin Research Laboratory, November 2002",
    "The study of cache misses and page faults": "Garba Isa Yau, Abdul Waheed: A Measurement Based Memory Performance "
    "Evaluation of High Throughput Servers. King Fahd University of Petroleum and Minerals, Dhahran, not dated; its "
    "references go up to December 2002",
}


def citation(source: str) -> str | None:
    """The full citation of a study's source, without the place in it; None for other sources."""
    return SOURCES.get(source.partition(", ")[0])
