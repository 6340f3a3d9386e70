"""Checks the ICRC of every packet of a capture: over IPv4 with scapy, which knows it; over
IPv6, which scapy does not, with what annex A17 of the InfiniBand specification says, and on
an InfiniBand port with its chapter 7.8, as the VCRC there."""
import struct
import sys
import zlib

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import RawPcapReader


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


def vcrc(b):
    register = 0xffff
    for byte in b:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xd008 if register & 1 else 0)  # 0x100b mirrored
    return struct.pack('<H', register ^ 0xffff)


def infiniband(packet):
    b = bytearray(packet[:-6])
    if b[1] & 3 == 3:  # a GRH
        b[:8] = b'\xff' * 8
        b[8:12] = b'\x6f\xff\xff\xff'
        b[15] = 0xff
        b[52] = 0xff
    else:
        b[0] |= 0xf0
        b[12] = 0xff
    icrc = struct.pack('<I', zlib.crc32(bytes(b)))
    return icrc + vcrc(packet[:-6] + icrc)


def check(kind, have, want):
    if have != want:
        sys.exit('packet %d %s: CRCs %s, not %s' % (sum(count.values()) + 1, kind, have.hex(), want.hex()))
    count[kind] += 1


count = {'over IPv4': 0, 'over IPv6': 0, 'local': 0, 'global': 0}
LINKTYPE_ERF, ERF_HEADER = 197, 16
packets = RawPcapReader(sys.argv[1])
for b, _ in packets:
    if packets.linktype == LINKTYPE_ERF:
        b = b[ERF_HEADER:]
        check('global' if b[1] & 3 == 3 else 'local', b[-6:], infiniband(b))
    elif b[14] >> 4 == 4:
        check('over IPv4', b[-4:], ipv4(b))
    else:
        check('over IPv6', b[-4:], ipv6(b))
print(', '.join('%d %s' % (n, kind) for kind, n in count.items()))
