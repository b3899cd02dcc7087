"""Parts of servers over HTTP: requests and answers, who may call, limits on clients, TLS."""
