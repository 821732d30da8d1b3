//! Questions for routes and answers to them, as messages and back.

use std::net::{IpAddr, SocketAddr};

use sluice_schedule::message::MAX_ROUTES;
use sluice_schedule::{Connection, FlowId, HolderId, HostId, Route, RouteQuestion};

use super::{Malformed, fold_link, unfold_link, within};
use crate::pb;

const ALLOWED_ROUTES: &str = "0 to 64 routes";
/// TCP, which is written as 0 and so not at all.
const TCP: u32 = 6;

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub(super) fn from_question(question: &RouteQuestion) -> pb::RouteQuestion {
    let Connection { source, destination, protocol } = question.connection;
    pb::RouteQuestion {
        flow: question.flow.0 as u32,
        source: octets(source.ip()),
        destination: octets(destination.ip()),
        source_port: source.port().into(),
        destination_port: destination.port().into(),
        protocol: u32::from(protocol) ^ TCP,
    }
}

pub(super) fn questions(host: HostId, wire: &[pb::RouteQuestion]) -> Result<Vec<RouteQuestion>, Malformed> {
    within("announcement.routes", wire.len(), MAX_ROUTES, ALLOWED_ROUTES)?;
    wire.iter().map(|question| read(host, question)).collect()
}

fn read(host: HostId, wire: &pb::RouteQuestion) -> Result<RouteQuestion, Malformed> {
    let source = end("announcement.routes.source", &wire.source, "announcement.routes.source_port", wire.source_port)?;
    let (field, port) = ("announcement.routes.destination", "announcement.routes.destination_port");
    let destination = end(field, &wire.destination, port, wire.destination_port)?;
    if source.is_ipv4() != destination.is_ipv4() {
        let found = wire.destination.len() as u64;
        return Err(Malformed { field, found, allowed: "as many bytes as the source" });
    }
    let field = "announcement.routes.protocol";
    let protocol = u8::try_from(wire.protocol ^ TCP);
    let protocol =
        protocol.map_err(|_| Malformed { field, found: wire.protocol.into(), allowed: "a number of 8 bits" })?;
    let connection = Connection { source, destination, protocol };
    Ok(RouteQuestion { flow: FlowId(u64::from(host.0) << 32 | u64::from(wire.flow)), connection })
}

fn end(field: &'static str, address: &[u8], port_field: &'static str, port: u32) -> Result<SocketAddr, Malformed> {
    let v4 = <[u8; 4]>::try_from(address).map(IpAddr::from);
    let ip = v4.or_else(|_| <[u8; 16]>::try_from(address).map(IpAddr::from));
    let found = address.len() as u64;
    let ip = ip.map_err(|_| Malformed { field, found, allowed: "an address of 4 or 16 bytes" })?;
    let number = u16::try_from(port);
    let port = number.map_err(|_| Malformed { field: port_field, found: port.into(), allowed: "0 to 65535" })?;
    Ok(SocketAddr::new(ip, port))
}

pub(super) fn from_route(holder: HolderId, route: &Route) -> pb::Route {
    pb::Route { flow: route.flow.0, link: fold_link(holder, route.link) }
}

pub(super) fn routes(holder: HolderId, wire: &[pb::Route]) -> Result<Vec<Route>, Malformed> {
    within("feedback.routes", wire.len(), MAX_ROUTES, ALLOWED_ROUTES)?;
    let route = |route: &pb::Route| Route { flow: FlowId(route.flow), link: unfold_link(holder, route.link) };
    Ok(wire.iter().map(route).collect())
}
