// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_cm/node.h"

namespace rockhopper::apps::cm {

using roce::cm::PortSpace;

Node::Node(Endpoint& endpoint, const Options& options)
    : CmNode(endpoint, {.response_timeout = static_cast<std::uint8_t>(options.response_timeout),
                        .max_retries = static_cast<std::uint8_t>(options.max_retries),
                        .timeout_s = options.timeout_s,
                        .pkey_index = options.endpoint.pkey_index}),
      options_(options) {}

Expected<std::unique_ptr<Node>> Node::create(Endpoint& endpoint, const Options& options) {
  std::unique_ptr<Node> node(new Node(endpoint, options));
  ROCKHOPPER_TRY(node->open());
  return node;
}

Expected<roce::AddressVector> Node::path_to_server() const {
  const stack::IpAddress server = options_.server();
  ROCKHOPPER_TRY(auto own, endpoint_.address_of_family(server.is_ipv4()));
  ROCKHOPPER_TRY(endpoint_.check_peer(server));
  return roce::AddressVector{
      .source = own,
      .destination = server,
      .traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class)};
}

std::uint64_t Node::service_id() const {
  return roce::cm::ip_service_id(options_.play == Play::udaddy ? PortSpace::udp : PortSpace::tcp,
                                 options_.service_port());
}

Expected<void> Node::listen(std::uint32_t backlog) { return CmNode::listen(service_id(), backlog); }

roce::cm::QpParameters Node::qp_parameters() const {
  return {.access_flags = roce::kAccessRemoteRead | roce::kAccessRemoteWrite,
          .responder_resources = 1,
          .initiator_depth = 1,
          .ack_timeout = static_cast<std::uint8_t>(options_.ack_timeout)};
}

}  // namespace rockhopper::apps::cm
