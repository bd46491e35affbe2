// Every page, in the order of the navigation. A further page is a module with these members, and one line here:
//
//   name   its part of the address, `#/name`          title  what the navigation says
//   key    the letter after "g"                       open(root, rest)  fills `root` and returns
//          {update(), go(rest)?, keys?, close()?}: `rest` is what follows the name in the address, `update` is called
//          whenever the state has changed, `go` when `rest` has.

import { api } from "./pages/api.js";
import { dependencies } from "./pages/dependencies.js";
import { events } from "./pages/events.js";
import { inspect } from "./pages/inspect.js";
import { overview } from "./pages/overview.js";
import { topology } from "./pages/topology.js";
import { workloads } from "./pages/workloads.js";

export const PAGES = [overview, events, dependencies, workloads, topology, inspect, api];
