# From CalculiX's print-out to a table: time of each block, vertical displacement of the one node in it.
BEGIN { print "t [s],w [m]" }
/displacements/ { t = $NF }
t != "" && NF == 4 && $1 ~ /^[0-9]+$/ { print t "," $4 }
