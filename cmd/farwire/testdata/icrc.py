"""Checks the ICRC of every packet of a capture: over IPv4 with scapy, which knows it; over
IPv6, which scapy does not, with what annex A17 of the InfiniBand specification says."""
import struct
import sys
import zlib

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import PcapReader


def ipv4(frame):
    packet = Ether(frame)
    packet[BTH].icrc = None
    return bytes(packet)[-4:]


def ipv6(frame):
    b = bytearray(frame[14:-4])
    b[0:4] = b'\x6f\xff\xff\xff'  # traffic class and flow label
    b[7] = 0xff  # hop limit
    b[46:48] = b'\xff\xff'  # UDP checksum
    b[52] = 0xff  # of the BTH: FECN, BECN and reserved bits
    return struct.pack('<I', zlib.crc32(b'\xff' * 8 + bytes(b)))


count = {4: 0, 6: 0}
for packet in PcapReader(sys.argv[1]):
    frame = bytes(packet.original)
    version = frame[14] >> 4
    want = ipv4(frame) if version == 4 else ipv6(frame)
    if frame[-4:] != want:
        sys.exit('packet %d over IPv%d: ICRC %s, not %s' % (sum(count.values()) + 1, version, frame[-4:].hex(), want.hex()))
    count[version] += 1
print('%d over IPv4, %d over IPv6' % (count[4], count[6]))
