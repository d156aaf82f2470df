# Prints the address that the host has in the network which its other traffic goes through.
ip -o route get 192.0.2.1 | sed -n 's/.* src \([^ ]*\).*/\1/p'
