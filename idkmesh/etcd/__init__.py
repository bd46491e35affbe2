"""How an etcd is asked through its JSON gateway, for whatever keeps something there."""
