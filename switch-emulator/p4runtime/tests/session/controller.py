"""A controller that shares no code with Sluice: by names it writes a link, a route and the guard's slot, and reads."""

import asyncio
import sys

import finsy


async def control(address: str, slot: int) -> None:
    options = finsy.SwitchOptions(device_id=1, initial_election_id=1000)
    async with finsy.Switch("twin", address, options) as switch:
        assert switch.is_primary, "nobody has a higher election id"
        link = finsy.P4TableAction("link", capacity=500, unit=0, signature=0x00C0FFEE)
        forward = finsy.P4TableAction("forward", port=1, destination=0x020000000101, source=0x020000000001)
        port = finsy.P4TableMatch({"standard.egress_port": 1})
        network = finsy.P4TableMatch({"hdr.ipv4.destination": "10.0.1.0/24"})
        entries = [
            finsy.P4TableEntry("links", match=port, action=link),
            finsy.P4TableEntry("lpm", match=network, action=forward),
        ]
        await switch.insert(entries)
        guard = finsy.P4TableAction("set_slot", slot=slot)
        await switch.modify([finsy.P4TableEntry("guard", is_default_action=True, action=guard)])
        found = [entry async for entry in switch.read([finsy.P4TableEntry()])]
        names = sorted(entry.table_id for entry in found)
        print(" ".join(names))


asyncio.run(asyncio.wait_for(control(sys.argv[1], int(sys.argv[2])), 50))
