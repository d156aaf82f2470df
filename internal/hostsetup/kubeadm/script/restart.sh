# Starts units anew. Arguments: the units.
set -eu
systemctl daemon-reload
for unit; do
	systemctl reset-failed "$unit" 2>/dev/null || :
	systemctl restart "$unit"
done
