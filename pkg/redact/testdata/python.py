# Prints the variable K in each way in which programs of Python print it.
import base64, json, os, urllib.parse as u

k = os.environ["K"]
print(os.environ)
print(dict(a=k))
print(json.dumps(k))
print(json.dumps(k, ensure_ascii=False))
print(base64.b64encode(k.encode()))
print(u.quote(k))
print(u.quote(k, safe=""))
print(u.quote_plus(k))
