"""Sizing a web server for a SPECweb99-like file set: RAM, disk, network and connections.

After section 5 of the study of diskless web servers, with its arithmetic corrected; `sizing.CORRECTIONS` lists each
figure that differs from the study.
"""
