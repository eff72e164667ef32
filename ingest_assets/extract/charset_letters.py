"""Letters by which languages are known: what tells one encoding of before Unicode from another.

What does not belong here: decoding and deciding (charset_legacy.py).
"""

# Letters beyond ASCII of languages in Latin letters; a text in one language has hardly any others.
_LATIN_LETTERS = {
    "de": "äöüß",
    "nordic": "åäöæøéü",
    "fr": "àâæçéèêëîïôœùûü",
    "es": "áéíóúüñ",
    "pt": "áâãàçéêíóôõúü",
    "it": "àèéìíòóùúî",
    "nl": "áéèëïíóöüúç",
    "is": "áðéíóúýþæö",
    "ca": "àçèéíïòóúü·",
    "et": "äõöüšž",
    "pl": "ąćęłńóśźż",
    "cs": "áčďéěíňóřšťúůýž",
    "sk": "áäčďéíĺľňóôŕšťúýž",
    "hu": "áéíóöőúüű",
    "ro": "ăâîşţșț",
    "hr": "čćđšž",
    "tr": "çğıöşüâîûİ",
    "lt": "ąčęėįšųūž",
    "lv": "āčēģīķļņšūž",
}
_WESTERN = ("de", "nordic", "fr", "es", "pt", "it", "nl", "is", "ca")
_CENTRAL = ("pl", "cs", "sk", "hu", "ro", "hr", "de")
# In the order in which they are believed where several explain a text as well.
LATIN = {
    encoding: [
        frozenset(_LATIN_LETTERS[language] + _LATIN_LETTERS[language].upper().replace("SS", "ẞ"))
        for language in languages
    ]
    for encoding, languages in {
        "cp1254": ("tr",),  # the same as the next but for six letters, which only Icelandic has there
        "cp1252": (*_WESTERN, "et"),
        "cp1250": _CENTRAL,
        "iso8859_2": _CENTRAL,
        "cp1257": ("lt", "lv", "et", "pl"),
        "iso8859_16": ("ro",),
        "cp850": _WESTERN,
        "cp852": _CENTRAL,
        "mac_roman": _WESTERN,
        "iso8859_15": _WESTERN,
    }.items()
}
# The commonest letters of other alphabets: about three quarters of a text each.
_RUSSIAN = frozenset("оеаинтсрвлкмді")
_GREEK = frozenset("αοιετσνηυρπκμςάίό")
_HEBREW = frozenset("יהולאמרתבשנ")
_ARABIC = frozenset("اليمونرتبةعدس")
ALPHABETS = {
    "cp1251": _RUSSIAN, "koi8_r": _RUSSIAN, "koi8_u": _RUSSIAN, "cp866": _RUSSIAN, "iso8859_5": _RUSSIAN,
    "mac_cyrillic": _RUSSIAN, "cp1253": _GREEK, "iso8859_7": _GREEK, "cp1255": _HEBREW, "cp1256": _ARABIC,
    "iso8859_6": _ARABIC, "cp874": frozenset("านรอกเงมยลว่ดท้สตะีิไ"),
}  # fmt: skip
# The commonest characters of languages with thousands: random bytes hardly ever spell them.
CHARACTERS = {
    "cp932": (
        "日本人年大会国点検査月火水木金土時分間中上下前後第号記録報告書機設備圧力正常異常完了確認担当者株"
        "式社部長工場管理"
    ),
    "gb18030": (
        "的一是不了在人有我他这中大来上国个到说们为子和你地出时年得就要下以生会自着之过家学对可里后小多天"
        "能好都没日于起发成事只作当看文无开手用主行方如前所本见经面公同三从动两长知民现分将外但与高进法此"
        "实回二理点月明其全工者部正名定问力机等几业最间新位因重被电第门相次政使教平信少关并内加化由代产入"
        "先水总场员性通报立数件安表原应路期提合计或受果检查压记录管"
    ),
    "cp949": (
        "이다는의가에을를한고지하로도기사리인어자대시해수일나보정아원전서주들부제과장그있으성상동조공구니"
        "라은여요습만스비위화"
    ),
    "big5": (
        "的一是不了在人有我他這中大來上國個到說們為子和你地出時年得就要下以生會自著之過家學對可里後小多天"
        "能好都沒日於起發成事只作當看文無開手用主行方如前所本見經面公同三從動兩長知民現分將外但與高進法此"
        "實回二理點月明其全工者部正名定問力機等幾業最間新位因重被電第門相次檢查壓記錄管"
    ),
}
CHARACTERS["euc_jp"] = CHARACTERS["cp932"]
KNOWN = frozenset("".join(CHARACTERS.values())).union(*ALPHABETS.values())
